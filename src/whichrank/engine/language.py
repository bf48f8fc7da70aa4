"""The language in which findings say what they say: English, or Chinese where a skill has a zh.yaml.

Verdicts, and everything a program compares, stay in English.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from whichrank.engine.query import read_yaml
from whichrank.errors import BrokenPack


def language_of(env: Mapping[str, str] = os.environ) -> str:
    """What the locale of the environment asks for: `zh` for any Chinese, else `en`."""
    said = next((env[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if env.get(name)), "")
    return "zh" if said.lower().startswith("zh") else "en"


def sayings(skill_path: Path, language: str) -> dict[str, str]:
    """Check -> its `says` in that language, from `<language>.yaml` beside a skill.yaml; {} where there is none."""
    path = skill_path.with_name(f"{language}.yaml")
    if language == "en" or not path.is_file():
        return {}
    data = read_yaml(path, path.read_text(encoding="utf-8"))
    if not isinstance(data, dict) or not all(isinstance(text, str) for text in data.values()):
        raise BrokenPack(f"{path}: not a check and its words on each line", looked_for="check: words")
    return {str(check): text for check, text in data.items()}
