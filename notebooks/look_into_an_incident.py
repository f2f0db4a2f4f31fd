# ---
# jupyter:
#   jupytext:
#     formats: py:percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Look into an incident
# From a score to a story: which alerts hang together, who moved where, and what the detector says about each step. The company
# is simulated, so that we know in the end whether it was the red team.

# %%
from collections import Counter

import polars as pl

import entente

company = entente.datasets.simulated("company", hosts=60, sites=2, days=3, seed=1)
experiment = company.experiment(rounds=2)
detection = experiment.detection.model_copy(update={"alerts_per_day": 20})
run = entente.train(experiment.model_copy(update={"detection": detection}), "run")
len(run.alerts)

# %% [markdown]
# ## The largest incident
# Alerts that share hosts and follow each other belong to one incident.

# %%
incident, size = Counter(alert.incident for alert in run.alerts).most_common(1)[0]
steps = [alert for alert in run.alerts if alert.incident == incident]
timeline = pl.DataFrame(
    [
        {
            "at": alert.time,
            "src": alert.src,
            "dst": alert.dst,
            "severity": alert.severity,
            "silo": alert.silo,
            "score": alert.score,
        }
        for alert in steps
    ]
).with_columns(pl.from_epoch("at", time_unit="us"))
timeline.head(10)

# %% [markdown]
# ## Why
# Every alert says why it was raised, from its own silo's view.

# %%
for alert in steps[:3]:
    print(alert.src, "->", alert.dst)
    for sentence in alert.explanation:
        print("   ", sentence)

# %% [markdown]
# ## Was it the red team?
# Only a simulated company can tell.

# %%
truth = pl.from_arrow(company.table()).filter(pl.col("label") == 1).select("src", "dst").unique()
found = timeline.select("src", "dst").unique().join(truth, on=["src", "dst"])
print(f"{len(found)} of {len(truth)} pairs of the red team are in this incident of {size} alerts")
