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
# # Train over silos
# Two sites train one detector together; beside it, what each would have had alone and what it would be with all logs in one
# place. One small simulated company and one seed: an illustration, not a ranking (docs/results.md has seeds and intervals).

# %%
import polars as pl

import entente

company = entente.datasets.simulated("company", hosts=60, sites=2, days=3, seed=1)
ROUNDS = 2  # 15 for a real run

# %%
runs = {}
for mode in ("federated", "local-only", "non-fl"):
    experiment = company.experiment(rounds=ROUNDS).model_copy(update={"mode": mode})
    runs[mode] = entente.train(experiment, f"runs/{mode}")

# %%
table = pl.DataFrame(
    [
        {"method": mode, "AP": run.metrics.overall.ap, "AUC": run.metrics.overall.auc}
        for mode, run in runs.items()
    ]
    + [
        {"method": f"baseline {name}", "AP": found.ap, "AUC": found.auc}
        for name, found in runs["federated"].metrics.baselines.items()
    ]
).sort("AP", descending=True)
table

# %% [markdown]
# ## What each silo contributed
# J is how alike its graph and the reference graph are, r what its update was worth, `norm` how long the update was.

# %%
contributions = pl.DataFrame(
    [
        {"round": record.round, "silo": silo, "j": one.j, "r": one.r, "norm": one.norm, "bytes": one.bytes_up}
        for record in runs["federated"].rounds
        if record.kind == "train"
        for silo, one in record.silos.items()
    ]
)
contributions

# %% [markdown]
# The run folder is what `entente train` leaves: `entente report runs/federated` makes a page of it.
