"""Types of settings that say which values make sense; study files and command lines are checked by them."""

from typing import Annotated

from pydantic import Field

_MOST = 2**31 - 1  # programs count with 32 bits
_MOST_AT_ONCE = 2**16  # far more than helps; a mistake, or a forged file, must not take all memory

Count = Annotated[int, Field(ge=1, le=_MOST)]
AtOnce = Annotated[int, Field(ge=1, le=_MOST_AT_ONCE)]  # what takes memory for each, such as draws
AtLeastTwo = Annotated[int, Field(ge=2, le=_MOST_AT_ONCE)]  # the same
Unrolled = Annotated[int, Field(ge=1, le=256)]  # what programs write out one by one
CountOrZero = Annotated[int, Field(ge=0, le=_MOST)]
Size = Annotated[int, Field(ge=1, le=2**16)]  # of a layer, or of what it is given
Sizes = Annotated[tuple[Size, ...], Field(max_length=100)]  # of hidden layers; there may be none
SomeSizes = Annotated[tuple[Size, ...], Field(min_length=1, max_length=100)]
Counts = Annotated[tuple[AtOnce, ...], Field(min_length=1, max_length=100)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Temperatures = Annotated[tuple[Positive, ...], Field(min_length=1)]
Share = Annotated[float, Field(ge=0, le=1)]
ShareBelowOne = Annotated[float, Field(ge=0, lt=1)]
