"""What the README shows runs."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def test_the_python_example_runs_and_the_body_falls(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(example, names)
    assert "hangs" in capsys.readouterr().out
    assert names["drop"] > 0.05  # type: ignore[operator]


def test_its_commands_and_links_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", README, flags=re.MULTILINE):
        assert f"\n{target}:" in makefile
    for link in re.findall(r"\]\(([^)]+)\)", README):
        assert (ROOT / link).is_file()
