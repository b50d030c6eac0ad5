"""Only test_zoo.py is for pytest to look into; the models are imported by run_zoo.py, in processes of its own."""

from pathlib import Path

collect_ignore = [path.name for path in Path(__file__).parent.glob("*.py") if path.name != "test_zoo.py"]
