"""Settings: the typed model, where each value came from, and the YAML reader that names lines."""

from ci.config.load import Settings, load_settings
from ci.config.model import SettingsModel, Stage

__all__ = ["Settings", "SettingsModel", "Stage", "load_settings"]
