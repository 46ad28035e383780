"""Policies fitted to a user's table, compared on rows that were held out (`ascertain fit`).

`held_out` splits the table, `scoring` scores a policy on rows with holes, `leaderboard` fits the candidates
and chooses the best, `simulation` and `policy_tree` describe what it does. `summary`, `figures` and `report`
present the result.
"""
