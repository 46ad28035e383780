"""Scorers for model selection that follow the policy: `GridSearchCV(model, grid, scoring=policy_auroc)`.

scikit-learn's own scorers ask for predictions from all that is on file, whatever it cost. These roll the
policy out, so that budgets, prices, methods and treatments can be compared.
"""

from ascertain.scorers._policy import PolicyScorer as PolicyScorer
from ascertain.scorers._policy import policy_accuracy as policy_accuracy
from ascertain.scorers._policy import policy_auprc as policy_auprc
from ascertain.scorers._policy import policy_auroc as policy_auroc
from ascertain.scorers._policy import policy_f1 as policy_f1
from ascertain.scorers._policy import policy_neg_brier as policy_neg_brier
from ascertain.scorers._policy import policy_neg_decision_cost as policy_neg_decision_cost
from ascertain.scorers._policy import policy_neg_log_loss as policy_neg_log_loss
from ascertain.scorers._policy import policy_neg_mean_cost as policy_neg_mean_cost
from ascertain.scorers._policy import policy_neg_total_cost as policy_neg_total_cost
