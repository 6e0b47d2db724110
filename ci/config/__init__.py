"""Settings: the typed model, where each value came from, and the YAML reader that names lines."""

from ci.config.load import Settings, load_settings
from ci.config.model import SettingsModel
from ci.config.stage_model import Stage

__all__ = ["Settings", "SettingsModel", "Stage", "load_settings"]
