"""Write docs/performance.md from the benchmarks' JSON files: `python scripts/performance_page.py [--docs FOLDER]`"""

from benchmarks.page.performance_page import main

if __name__ == "__main__":
    main()
