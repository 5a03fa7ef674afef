"""From evidence to a verdict: `judge` is the one way in, for one setting and for several. Imports no torch."""

from normexp.claims.judge.verdict import judge as judge
