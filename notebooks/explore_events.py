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
# # Explore events
# What is in a log before anything is trained: who talks to whom, when, and what is new. The company is simulated; put your
# own event directory (`entente ingest`) or frame in its place.

# %%
import polars as pl

import entente

company = entente.datasets.simulated("company", hosts=60, sites=2, days=3, seed=1)
events = pl.from_arrow(company.table()).with_columns(pl.from_epoch("time", time_unit="us").alias("at"))
events.head()

# %% [markdown]
# ## Rhythm
# Events per hour of the day: people sleep, jobs do not.

# %%
per_hour = events.group_by(pl.col("at").dt.hour().alias("hour")).len().sort("hour")
per_hour

# %% [markdown]
# ## Degrees
# A few servers are reached by almost everybody; most hosts reach a handful.

# %%
sources_of = (
    events.group_by("dst").agg(pl.col("src").n_unique().alias("sources")).sort("sources", descending=True)
)
sources_of.head(10)

# %% [markdown]
# ## What is new
# The first time a pair of hosts is seen. In the first hours everything is new; later, a burst of new pairs from one host is
# what an intruder looks like, and also what an administrator looks like.

# %%
first_seen = events.group_by("src", "dst").agg(pl.col("at").min().alias("first"))
new_per_day = first_seen.group_by(pl.col("first").dt.date().alias("day")).len().sort("day")
new_per_day

# %%
later = first_seen.filter(pl.col("first") >= pl.from_epoch(pl.lit(company.train), time_unit="s"))
busiest = later.group_by("src").len().sort("len", descending=True).head(5)
busiest

# %% [markdown]
# The same events as PyTorch Geometric's `TemporalData`, for a model of your own (extra `pyg`):
# `data, hosts = entente.to_temporal_data(company.events)`.
