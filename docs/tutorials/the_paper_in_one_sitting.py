# %% [markdown]
# # The paper in one sitting
