"""What the holes of a user's table mean for learning an acquisition policy (`ascertain diagnose`).

`findings` puts together what the others find: `profile` describes the columns, `holes` what is missing and
what missingness is associated with, `support` how many rows have the actions of a path, `fixed_routes` what
fixed sets of actions achieve, `restorers` how well restorers fill the holes. `recommendations` are rules over
the findings; `summary`, `figures` and `report` present them.
"""
