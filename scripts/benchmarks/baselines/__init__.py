"""Code to compare the project with, and limits on how much slower the project may be."""
