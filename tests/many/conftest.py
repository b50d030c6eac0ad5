"""Programs that tests start as processes of their own change JAX's settings, so they are not to be imported."""

collect_ignore_glob = ["*_program.py"]
