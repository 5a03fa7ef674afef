"""Where the numbers of a run go: its own files, TensorBoard, and services (Weights & Biases, MLflow)."""
