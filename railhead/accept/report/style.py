"""The look of a report: colours for light and dark, and the style sheet.

Every pair of a text's colour and its ground has a contrast of at least 4.5 to 1, and every line
that carries meaning 3 to 1 (WCAG 2.2, 1.4.3 and 1.4.11); a test computes them.
"""

from __future__ import annotations

# Names of colours, first in the light, then in the dark.
COLOURS: dict[str, tuple[str, str]] = {
    "ground": ("#ffffff", "#14181d"),
    "panel": ("#f5f6f8", "#1d232a"),
    "ink": ("#1a1f26", "#e6e9ed"),
    "soft": ("#56606c", "#a5afbb"),
    "rule": ("#d5dae0", "#38424d"),
    "link": ("#0b57a8", "#7db8f5"),
    "good": ("#146c34", "#6fd08c"),
    "good-ground": ("#e6f4ea", "#16301f"),
    "bad": ("#b3181f", "#ff9a94"),
    "bad-ground": ("#fdebea", "#3b1a1b"),
    "open": ("#7a4b00", "#f2c46d"),
    "open-ground": ("#fff4dc", "#352a12"),
    # Series of a plot and states of a timeline.
    "s0": ("#0b62b8", "#62aaf0"),
    "s1": ("#b3480b", "#f0975c"),
    "s2": ("#11744c", "#4fc28f"),
    "s3": ("#8a3a94", "#d58ade"),
    "s4": ("#7a6000", "#d4b43c"),
    "s5": ("#5a5fd0", "#a3a7ff"),
}
SERIES = 6
# (text, its ground) as the sheet below uses them.
TEXT_ON = (
    ("ink", "ground"),
    ("ink", "panel"),
    ("soft", "ground"),
    ("soft", "panel"),
    ("link", "ground"),
    ("link", "panel"),
    ("good", "ground"),
    ("good", "panel"),
    ("good", "good-ground"),
    ("bad", "ground"),
    ("bad", "panel"),
    ("bad", "bad-ground"),
    ("open", "ground"),
    ("open", "panel"),
    ("open", "open-ground"),
    ("ink", "good-ground"),
    ("ink", "bad-ground"),
    ("ink", "open-ground"),
    ("soft", "good-ground"),
    ("soft", "bad-ground"),
    ("soft", "open-ground"),
)
GRAPHICS_ON = (
    *((f"s{n}", "panel") for n in range(SERIES)),
    ("soft", "panel"),
    ("bad", "panel"),
    ("good", "panel"),
)

_SHEET = """
*{box-sizing:border-box}
html{background:var(--ground);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",
"Liberation Sans","DejaVu Sans",sans-serif;-webkit-text-size-adjust:100%}
body{margin:0 auto;max-width:62rem;padding:1rem 1rem 4rem}
h1{font-size:1.6rem;line-height:1.2;margin:.5rem 0}
h2{font-size:1.25rem;line-height:1.3;margin:0 0 .25rem;display:flex;flex-wrap:wrap;gap:.25rem
.75rem;align-items:center}
h3{font-size:1rem;margin:1.25rem 0 .35rem}
p{margin:.4rem 0;overflow-wrap:anywhere}
a{color:var(--link)}
a:focus-visible,summary:focus-visible,[tabindex]:focus-visible{outline:3px solid var(--link);
outline-offset:2px;border-radius:3px}
.skip{position:absolute;left:-99rem}
.skip:focus{position:static}
.soft{color:var(--soft)}
.verdict{border-left:.5rem solid;border-radius:.4rem;padding:.9rem 1.1rem;margin:1rem 0}
.verdict p,.verdict ul{color:var(--ink)}
.verdict ul{margin:.2rem 0 0;padding-left:1.2rem}
.verdict .word{font-size:1.7rem;font-weight:700;line-height:1.15;margin:0 0 .3rem}
.passed,.yes{color:var(--good)}
.failed,.no{color:var(--bad)}
.not-proven{color:var(--open)}
.verdict.passed,.badge.passed{background:var(--good-ground);color:var(--good)}
.verdict.failed,.badge.failed{background:var(--bad-ground);color:var(--bad)}
.verdict.not-proven,.badge.not-proven,.badge.waived{background:var(--open-ground);color:var(--open)}
.verdict .word.passed,.verdict .word.failed{color:inherit}
.badge{display:inline-block;border:1px solid;border-radius:1rem;padding:.05rem .65rem;
font-size:.85rem;font-weight:600;white-space:nowrap;margin-right:.3rem}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));gap:.6rem 1.2rem;
margin:1rem 0}
.facts div{min-width:0}
dt{color:var(--soft);font-size:.85rem}
dd{margin:0;overflow-wrap:anywhere}
section{margin:2rem 0 0;padding-top:1.25rem;border-top:1px solid var(--rule)}
.box{background:var(--panel);border-radius:.4rem;padding:.6rem .9rem;margin:.75rem 0}
.box.open{background:var(--open-ground)}
.wide{overflow-x:auto;margin:.5rem 0;max-width:100%}
table{border-collapse:collapse;width:100%;font-size:.92rem}
caption{text-align:left;color:var(--soft);font-size:.85rem;padding:.2rem 0}
th,td{text-align:left;vertical-align:top;padding:.35rem .7rem .35rem 0;
border-bottom:1px solid var(--rule)}
thead th{color:var(--soft);font-weight:600;font-size:.85rem;white-space:nowrap}
tbody th{font-weight:500;min-width:7rem;overflow-wrap:anywhere}
td{overflow-wrap:break-word}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
td.yes,td.no{white-space:nowrap}
td.source{color:var(--soft);min-width:12rem}
pre{background:var(--panel);border-radius:.4rem;padding:.6rem .8rem;margin:.5rem 0;overflow-x:auto;
font:.82rem/1.5 ui-monospace,SFMono-Regular,"Liberation Mono","DejaVu Sans Mono",monospace;
max-height:32rem;tab-size:4}
code{font:.85em ui-monospace,SFMono-Regular,"Liberation Mono","DejaVu Sans Mono",monospace;
overflow-wrap:anywhere}
details{margin:.4rem 0}
summary{cursor:pointer;padding:.2rem 0;color:var(--link);overflow-wrap:anywhere}
figure{background:var(--panel);border-radius:.4rem;margin:1rem 0;padding:.8rem .9rem}
figcaption{font-weight:600;margin-bottom:.4rem}
figure svg{display:block;width:100%;height:auto}
figure details{font-size:.9rem;margin-bottom:0}
.phone{display:none!important}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.15rem 1.1rem;margin:.4rem 0;padding:0;
font-size:.85rem}
.legend li{display:flex;gap:.4rem;align-items:center;min-width:0;overflow-wrap:anywhere}
.legend svg{flex:none;width:26px;height:12px}
.marks{margin:.4rem 0;padding-left:1.6rem;font-size:.85rem}
svg text{fill:var(--soft);font:12px system-ui,-apple-system,"Segoe UI","Liberation Sans",
"DejaVu Sans",sans-serif}
svg .name{fill:var(--ink);paint-order:stroke;stroke:var(--panel);stroke-width:4px;
stroke-linejoin:round}
svg .axis{stroke:var(--soft);stroke-width:1;fill:none}
svg .grid{stroke:var(--rule);stroke-width:1}
svg .mark{stroke:var(--bad);stroke-width:1.5;stroke-dasharray:2 3}
svg .marked{fill:var(--bad);font-weight:700;paint-order:stroke;stroke:var(--panel);stroke-width:3px}
svg .line{fill:none;stroke-width:2.2;stroke-linejoin:round}
svg .ideal{stroke:var(--ink);fill:none;stroke-width:2;stroke-dasharray:7 5}
svg .band{stroke:none;fill-opacity:.2}
svg .cell{stroke-width:1.5}
svg .cell.passed{fill:var(--good-ground);stroke:var(--good)}
svg .cell.failed{fill:var(--bad-ground);stroke:var(--bad)}
svg .cell.not-proven{fill:var(--open-ground);stroke:var(--open)}
svg .sign.passed{fill:var(--good)}
svg .sign.failed{fill:var(--bad)}
svg .sign.not-proven{fill:var(--open)}
svg .waits{fill:none;stroke:var(--soft);stroke-width:1.5;stroke-dasharray:4 3}
svg .holds{fill:var(--s0);fill-opacity:.3;stroke:var(--s0);stroke-width:1.5}
svg .runs{fill:var(--s0)}
svg .done{fill:var(--good)}
svg .lost{fill:var(--bad)}
.toc td:first-child{font-weight:500}
footer{margin-top:2.5rem;padding-top:1rem;border-top:1px solid var(--rule);color:var(--soft);
font-size:.88rem}
@media screen and (max-width:40rem){
html{font-size:15px}
.desk{display:none!important}
.phone{display:block!important}
table.stack,.stack caption,.stack tbody,.stack tr,.stack td,.stack tbody th{display:block}
.stack thead{position:absolute;left:-99rem}
.stack tr{border-bottom:1px solid var(--rule);padding:.45rem 0}
.stack th,.stack td,.stack td.n{border:0;padding:.05rem 0;text-align:left;white-space:normal}
.stack tbody th{font-weight:600}
.stack td:empty{display:none}
.stack td[data-label]::before{content:attr(data-label) ": ";color:var(--soft)}
}
@media print{
@page{margin:14mm}
html{font-size:10.5pt}
body{max-width:none;padding:0}
.skip{display:none}
section{break-before:auto}
h2,h3,figcaption,summary,caption{break-after:avoid}
figure,tr,.verdict,.box{break-inside:avoid}
pre{max-height:none;white-space:pre-wrap;overflow-wrap:anywhere;font-size:8pt;line-height:1.35}
.wide{overflow:visible}
details::details-content{content-visibility:visible;display:block;height:auto}
figure details{display:none}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}
}
"""


def sheet() -> str:
    """Return the whole style sheet."""
    series = "".join(
        f"svg .s{n}{{stroke:var(--s{n})}}svg .f{n}{{fill:var(--s{n})}}" for n in range(SERIES)
    )
    # Paper is white, whatever the screen is.
    return (
        f":root{{color-scheme:light;{_variables(0)}}}"
        "@media screen and (prefers-color-scheme:dark)"
        f"{{:root{{color-scheme:dark;{_variables(1)}}}}}"
        f"{_SHEET}{series}"
    )


def _variables(mode: int) -> str:
    return "".join(f"--{name}:{pair[mode]};" for name, pair in COLOURS.items())
