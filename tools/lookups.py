"""Entries of the pages of reference for `get` and `names`.

They are methods of a registry under the names of functions, so there is no docstring to take.
"""

# What parts of each package are called, and one of them for the examples: its name and its label.
OF_REGISTRY = {
    "ascertain.methods": ("method", "gdfs", "GDFS"),
    "ascertain.restoration": ("restorer", "hotdeck", "hot deck"),
    "ascertain.missingness": ("mechanism", "mar", "MAR"),
    "ascertain.datasets": ("dataset", "cube", "CUBE"),
    "ascertain.predictors": ("predictor", "mlp", "MLP"),
}


def is_lookup(module: str, name: str) -> bool:
    """Whether a public name is a method of a registry, so that no docstring of its own can be found."""
    return module in OF_REGISTRY and name in ("get", "names")


def entry(module: str, name: str) -> str:
    """The entry of a name that looks parts up."""
    kind, part, label = OF_REGISTRY[module]
    package = module.removeprefix("ascertain.")
    signature = {"get": "get(name)", "names": "names()"}[name]
    text = {
        "get": f"Look up a {kind}; an unknown name raises an `InputError` that suggests a known one.",
        "names": f"The names of all {kind}s: ours in the order of the documentation, then those of others.",
    }[name]
    example = {
        "get": f">>> {package}.get({part!r}).label\n{label!r}",
        "names": f">>> {part!r} in {package}.names()\nTrue",
    }[name]
    link = f"[`Registry`](ascertain.registry.md#ascertain.registry.Registry.{name})"
    heading = f"## `{name}` {{ #{module}.{name} }}"
    return (
        f"{heading}\n\n```python\n{signature}\n```\n\n{text} A method of a {link}.\n\n"
        f"```python\n>>> from ascertain import {package}\n{example}\n```\n"
    )
