"""The main job over real data, step by step, and its summary."""
