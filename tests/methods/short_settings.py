"""Settings as small as each method allows: compiling takes nearly all the time, and layers make it longer."""

from typing import Any

from ascertain._core.training import Schedule
from ascertain.methods import _aaco as aaco
from ascertain.methods import _aaco_nn as aaco_nn
from ascertain.methods import _concrete_autoencoder as concrete
from ascertain.methods import _cwcf as cwcf
from ascertain.methods import _dime as dime
from ascertain.methods import _eddi as eddi
from ascertain.methods import _gdfs as gdfs
from ascertain.methods import _jafa as jafa
from ascertain.methods import _odin as odin
from ascertain.methods import _odin_mb as odin_mb
from ascertain.methods import _ol as ol
from ascertain.methods import _permutation as permutation
from ascertain.methods import _planner as planner
from ascertain.methods import _sefa as sefa
from ascertain.methods import _static as static
from ascertain.restoration import _pvae as pvae

_ONCE = Schedule(batch_size=16, batches_per_round=1, max_rounds=2)
_FEW: dict[str, Any] = {"batches": 3, "frames_per_batch": 8, "slots": 8}
_VAE = pvae.Settings(
    latent=3, embedding=3, point_hidden=4, encoder=(4,), decoder=(), classifier=(), schedule=_ONCE
)

# What is not listed is short as it is.
SHORT: dict[str, Any] = {
    "aaco": aaco.Settings(candidates=8, neighbours=3),
    "aaco_nn": aaco_nn.Settings(candidates=8, neighbours=3, hidden=(4,), batch_size=16, epochs=2, steps=3),
    "cwcf": cwcf.Settings(**_FEW, hidden=(4,), replay_slices=16, sampled_slices=6, pretraining=_ONCE),
    "concrete": concrete.Settings(steps=3, batch_size=16, epochs=2, hidden=(), temperatures=(1.0, 0.1)),
    "dime": dime.Settings(steps=3, batch_size=16, epochs=2, pretraining_epochs=2, hidden=(8,)),
    "eddi": eddi.Settings(samples=4, vae=_VAE),
    "gdfs": gdfs.Settings(
        steps=3, batch_size=16, epochs=2, pretraining_epochs=2, hidden=(), temperatures=(1.0, 0.1)
    ),
    "jafa": jafa.Settings(**_FEW, hidden=(), embedding=3, process_steps=2, pretraining=_ONCE),
    "odin": odin.Settings(**_FEW, vae=_VAE),
    "odin_mb": odin_mb.Settings(**_FEW, vae=_VAE),
    "ol": ol.Settings(
        **_FEW,
        hidden=(8, 8, 4),
        confidence_passes=2,
        replay_slices=16,
        sampled_slices=6,
        pretraining=_ONCE,
    ),
    "planner": planner.Settings(
        updates=4,
        slots=8,
        direct_slots=8,
        hidden=(8,),
        updates_per_round=2,
        exploring=2,
        folds=2,
        predictor=_ONCE,
        steps=3,
    ),
    "permutation": permutation.Settings(batch_size=16, epochs=2, hidden=()),
    "sefa": sefa.Settings(latent=2, encoder=(), hidden=(4,), training_draws=3, draws=4, schedule=_ONCE),
    "static": static.Settings(routes=16),
}
