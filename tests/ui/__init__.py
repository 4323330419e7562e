"""FiberNB in a real JupyterLab, in a headless browser."""
