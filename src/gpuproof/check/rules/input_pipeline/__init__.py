"""Input pipelines: rules IO."""
