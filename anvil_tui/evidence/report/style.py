"""The one style sheet: light, dark by the reader's wish, and always light on paper. Nothing is fetched."""

CSS = """
:root {
  color-scheme: light;
  --paper: #fff; --ink: #1b2026; --muted: #5a6570; --line: #e3e7eb; --shade: #eef1f4; --accent: #1f5fa8;
  --good: #17703a; --good-back: #e4f3e9; --bad: #b3261e; --bad-back: #fbe7e5; --doubt: #8a5a00; --doubt-back: #fbf0d9;
  --series-1: #1f6fb4; --series-2: #d9660f; --series-3: #8fbbe0; --series-4: #7a4fa3; --series-5: #2f8f5b;
  --series-6: #a3485f;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    color-scheme: dark;
    --paper: #14181d; --ink: #e4e8ec; --muted: #98a3ae; --line: #2b323a; --shade: #1f262e; --accent: #7db7f0;
    --good: #6fd197; --good-back: #17301f; --bad: #ff8a80; --bad-back: #3d1a18; --doubt: #f0c264; --doubt-back: #36290f;
    --series-1: #5ba4e6; --series-2: #f59042; --series-3: #35587a; --series-4: #b693dd; --series-5: #66c592;
    --series-6: #e08a9f;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 28px 32px 64px; max-width: 1120px; background: var(--paper); color: var(--ink);
  font: 14px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif;
}
h1 { font-size: 25px; line-height: 1.2; margin: 0 0 8px; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 44px 0 10px; padding-top: 14px; border-top: 1px solid var(--line); }
h3 { font-size: 14.5px; margin: 26px 0 6px; }
p { margin: 6px 0; }
a { color: var(--accent); }
code {
  font: 0.92em/1.4 ui-monospace, "Cascadia Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
  overflow-wrap: anywhere;
}
sup { color: var(--muted); font-size: 9px; margin-left: 2px; }
.kind { text-transform: uppercase; letter-spacing: 0.09em; font-size: 11.5px; color: var(--muted); margin: 0 0 4px; }
.ending { font-size: 15px; }
.quiet, caption { color: var(--muted); font-size: 12.5px; }
.na { color: var(--muted); font-style: italic; }
.rehearsal {
  display: flex; gap: 18px; align-items: center; margin: 0 0 24px; padding: 12px 18px; border: 2px solid var(--bad);
  background: var(--bad-back); border-radius: 4px;
}
.rehearsal strong { font-size: 34px; line-height: 1; letter-spacing: 0.06em; color: var(--bad); }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(185px, 1fr)); gap: 10px; margin: 20px 0 8px; }
.tile { border: 1px solid var(--line); border-radius: 4px; padding: 9px 12px; display: flex; flex-direction: column; }
.tile > span { color: var(--muted); font-size: 12px; }
.tile b { font-size: 19px; font-weight: 600; font-variant-numeric: tabular-nums; margin: 1px 0 2px; }
.tile b small { display: block; font-size: 11px; font-weight: 400; color: var(--muted); }
.tile b .verdict { font-size: 15px; }
.tile code { color: var(--muted); font-size: 10.5px; margin-top: auto; }
.key { display: flex; flex-wrap: wrap; gap: 0 12px; align-items: baseline; }
.key b { font-variant-numeric: tabular-nums; }
.key small { color: var(--muted); }
nav { margin: 14px 0 0; font-size: 13px; display: flex; flex-wrap: wrap; gap: 4px 16px; }
.scroll { overflow-x: auto; margin: 10px 0 18px; }
table { border-collapse: collapse; width: 100%; font-size: 12.5px; }
caption { text-align: left; padding: 0 0 6px; line-height: 1.4; }
th { text-align: left; font-weight: 600; color: var(--muted); vertical-align: bottom; }
thead th { border-bottom: 1.5px solid var(--muted); line-height: 1.25; }
th, td { padding: 4px 8px 4px 0; border-bottom: 1px solid var(--line); }
td { vertical-align: top; overflow-wrap: break-word; }
.run { white-space: nowrap; }
.figure { text-align: right; font-variant-numeric: tabular-nums; }
td.figure { white-space: nowrap; }
.facts { width: auto; min-width: 50%; }
.facts th { font-weight: 400; vertical-align: top; padding-right: 24px; white-space: nowrap; }
.verdict { font-weight: 600; padding: 0 6px; border-radius: 3px; white-space: nowrap; }
.good { color: var(--good); background: var(--good-back); }
.bad { color: var(--bad); background: var(--bad-back); }
.doubt { color: var(--doubt); background: var(--doubt-back); white-space: normal; }
figure { margin: 14px 0 22px; }
figcaption { font-size: 13px; margin-bottom: 4px; }
figcaption b { display: block; }
figure svg { display: block; max-width: 100%; height: auto; }
blockquote { margin: 10px 0; padding: 8px 16px; border-left: 3px solid var(--accent); background: var(--shade); }
dl { font-size: 12.5px; columns: 2; column-gap: 36px; }
dt { font-weight: 600; break-after: avoid; }
dd { margin: 0 0 8px; color: var(--muted); break-inside: avoid; }
@page { size: A4 portrait; margin: 12mm 11mm; }
@media print {
  body { padding: 0; max-width: none; font-size: 9.5pt; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  nav { display: none; }
  h2 { margin-top: 22px; break-after: avoid; }
  h3, figcaption, caption { break-after: avoid; }
  figure, tr, caption, .tile, .rehearsal, blockquote { break-inside: avoid; }
  thead { display: table-header-group; }
  .scroll { overflow: visible; }
  .run { white-space: normal; }
  table { font-size: 7pt; }
  th, td { padding: 2px 5px 2px 0; }
  .tiles { grid-template-columns: repeat(4, 1fr); gap: 6px; }
  .tile b { font-size: 12pt; }
  .quiet, caption, figcaption, dl { font-size: 8pt; }
}
"""
