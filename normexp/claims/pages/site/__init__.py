"""The verdicts as a static site: an index that can be filtered, and a page for each claim. Fetches nothing."""
