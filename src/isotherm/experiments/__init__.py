"""The paper, reproduced: one file a figure or table, settings as data."""
