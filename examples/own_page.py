"""The page in a program of your own: a model behind a web address.

`ascertain serve model` is the short way. If you have a web application already, `create_app` makes one for a
model that you mount beside your own, with the page and a JSON interface.
"""

# %%
# ## A model
#
# A small table, and a method that is quick to fit.

import json
import threading
import time
import urllib.request

import numpy as np
import pandas as pd
import uvicorn

from ascertain import AcquisitionClassifier
from ascertain.serve import About, Limits, create_app

rng = np.random.default_rng(0)
table = pd.DataFrame(rng.normal(size=(400, 3)), columns=["pressure", "pulse", "noise"])
outcome = np.where(table["pressure"] + rng.normal(size=400) / 2 > 0, "ill", "well")
model = AcquisitionClassifier(method="static", restorer="hotdeck", budget=2, effort="low", random_state=0)
model.fit(table.mask(rng.random(table.shape) < 0.3), outcome)

# %%
# ## What people should know
#
# The page says what the model is for, what it is not for, and where it comes from. `purpose` adds what only
# you know.

about = About.of(model.advisor_, title="Ward 3", purpose="For adults who come in with chest pain.")
print(about.purpose)
print("\n".join(f"- {caution}" for caution in about.cautions[:2]))

# %%
# ## The application
#
# It is an ASGI application, so any server runs it: here uvicorn, on a free port of this machine. `Limits`
# says what it accepts; by default requests from this machine only.

application = create_app(model.advisor_, about, limits=Limits(rate=20))
server = uvicorn.Server(uvicorn.Config(application, port=0, log_level="error"))
thread = threading.Thread(target=server.run, daemon=True)
thread.start()
while not server.started:
    time.sleep(0.1)
port = server.servers[0].sockets[0].getsockname()[1]

# %%
# ## Ask it
#
# A case is a list of what was entered so far. The answer says what to measure next, and what to predict now.
# The page does the same; `/api/openapi.json` describes the interface.


def ask(case: dict[str, object]) -> dict[str, object]:
    """Send a case, and return the answer."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/advice",
        data=json.dumps(case).encode(),
        headers={"content-type": "application/json"},
    )
    with urllib.request.urlopen(request) as reply:
        answer: dict[str, object] = json.load(reply)
    return answer


print("first:", ask({})["recommended"])
answer = ask({"entries": [{"values": {"pressure": 1.4}}]})
print("then:", answer["recommended"], "| prediction:", answer["prediction"])

# %%
# Nothing that is sent is stored. Before others than yourself use it, put a proxy with a password and
# encryption in front (`docs/practice.md`).

server.should_exit = True
thread.join()
