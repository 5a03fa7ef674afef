"""The papers of claims by their arXiv id, so that `normexp verify 2503.10622` finds what is claimed there."""

import re

# id -> the words with which `source` names the paper
PAPERS = {
    "1502.03167": "Ioffe, Szegedy 2015",
    "1607.06450": "Ba et al. 2016",
    "1702.03275": "Ioffe 2017",
    "1712.05877": "Jacob et al. 2018",
    "1803.08494": "Wu, He 2018",
    "1805.11604": "Santurkar et al. 2018",
    "1806.02375": "Bjorck et al. 2018",
    "1902.08129": "Yang et al. 2019",
    "1906.03548": "Summers, Dinneen 2020",
    "1910.07467": "Zhang, Sennrich 2019",
    "1911.07013": "Xu et al. 2019",
    "2002.04745": "Xiong et al. 2020",
    "2003.01652": "Daneshmand et al. 2020",
    "2003.07845": "Shen et al. 2020",
    "2101.08692": "Brock et al. 2021",
    "2105.07576": "Wu, Johnson 2021",
    "2106.03970": "Daneshmand et al. 2021",
    "2210.05153": "Wang et al. 2022",
    "2305.18399": "Joudaki et al. 2023",
    "2310.02012": "Meterez et al. 2024",
    "2502.02732": "Kim et al. 2025",
    "2502.05795": "Sun et al. 2025",
    "2503.10622": "Zhu et al. 2025",
}
ARXIV = re.compile(r"(?:arxiv:)?(\d{4}\.\d{4,5})(?:v\d+)?", re.IGNORECASE)


def arxiv_id(word: str) -> str:
    """The id in a word such as 2503.10622, arXiv:2503.10622v2 or the address of its page; empty if there is none."""
    match = ARXIV.fullmatch(word.rstrip("/").rpartition("/")[2].removesuffix(".pdf"))
    return match[1] if match else ""


def is_of(paper: str, source: str) -> bool:
    """Whether the `source` of a claim names the paper of an arXiv id, by the id or by its authors."""
    return paper in source or (paper in PAPERS and PAPERS[paper] in source)
