#include "triaccel/telemetry/report/report_parts.h"

namespace triaccel {

// Colours: Okabe and Ito's colour-blind-safe palette, adjusted for the contrast of thin lines.
std::string_view report_style() {
  return R"css(
:root{--page:#f6f7f9;--card:#fff;--text:#1b1f24;--quiet:#5d6672;--rule:#e3e6ea;--room:#eef0f3;
--limit:#b3261e;
--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#aa3377;--c4:#b98900;--c5:#4aa3df;--c6:#6b7280;
--h0:#e4eef7;--h1:#c6dcee;--h2:#9fc5e2;--h3:#73a9d2;--h4:#4a8bbf;--h5:#2a6da8;--h6:#134f88;
--h7:#08305c}
@media (prefers-color-scheme:dark){:root{--page:#14171b;--card:#1c2026;--text:#e6e9ed;
--quiet:#9aa4b0;--rule:#2f353d;--room:#2a3038;--limit:#ff8a80;
--c0:#4fa8e0;--c1:#ff8f57;--c2:#2fc79b;--c3:#e07fb8;--c4:#e3b341;--c5:#93cdf5;--c6:#a3abb6;
--h0:#22344a;--h1:#23476a;--h2:#255c8b;--h3:#2c74aa;--h4:#418fc5;--h5:#68acd9;--h6:#9ccaea;
--h7:#d8edfb}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);font:15px/1.5 system-ui,-apple-system,
"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;font-variant-numeric:tabular-nums}
main{max-width:1200px;margin:0 auto;padding:32px 20px 56px}
header{margin-bottom:20px}
h1{font-size:26px;line-height:1.2;font-weight:650;letter-spacing:-.01em;margin:0 0 4px;
overflow-wrap:anywhere}
h2{font-size:17px;font-weight:600;margin:0 0 12px;overflow-wrap:anywhere}
h3{font-size:15px;font-weight:600;margin:20px 0 6px}
p.facts{margin:0;color:var(--quiet);overflow-wrap:anywhere}
section{margin-bottom:16px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(140px,1fr));gap:12px}
.tile,figure,.details,.scroll{background:var(--card);border:1px solid var(--rule);
border-radius:10px}
.tile{padding:14px 16px}
.name-of,.remark{color:var(--quiet);font-size:13px}
.value{font-size:23px;font-weight:600;line-height:1.35;letter-spacing:-.01em;white-space:nowrap}
.scroll{overflow-x:auto;padding:6px 16px}
table{border-collapse:collapse;width:100%}
th,td{padding:8px 12px 8px 0;text-align:left;border-bottom:1px solid var(--rule);
vertical-align:top}
tbody tr:last-child>*{border-bottom:0}
.runs th,.runs td{white-space:nowrap;text-align:right;padding:9px 0 9px 20px}
.runs th:first-child{text-align:left;padding-left:0}
thead th{color:var(--quiet);font-size:13px;font-weight:500}
tbody th{font-weight:500}
.best{font-weight:700}
table.facts th{color:var(--quiet);font-weight:400;width:190px}
table.facts th,table.facts td{padding-top:5px;padding-bottom:5px;overflow-wrap:anywhere}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,460px),1fr));gap:16px}
figure{margin:0;padding:14px 16px 10px;min-width:0}
figure.wide{grid-column:1/-1}
figcaption{font-weight:600;margin-bottom:8px;overflow-wrap:anywhere}
svg{display:block;width:100%;height:auto;overflow:visible}
svg text{font-size:12px;fill:var(--text)}
svg .tick{fill:var(--quiet);font-size:11.5px}
svg .label{font-size:13px}
.c0{--c:var(--c0)}.c1{--c:var(--c1)}.c2{--c:var(--c2)}.c3{--c:var(--c3)}.c4{--c:var(--c4)}.c5{
--c:var(--c5)}.c6{--c:var(--c6)}
.h0{--c:var(--h0)}.h1{--c:var(--h1)}.h2{--c:var(--h2)}.h3{--c:var(--h3)}.h4{--c:var(--h4)}.h5{
--c:var(--h5)}.h6{--c:var(--h6)}.h7{--c:var(--h7)}
.cell{fill:var(--c);shape-rendering:crispEdges}
svg .small{font-size:10px}
.ramp{display:inline-flex;align-items:center}
.ramp i{width:18px;height:10px;background:var(--c)}
.swatch.none{background:var(--room);border:1px solid var(--rule)}
figure .remark{margin:6px 0 0}
.grid{stroke:var(--rule);fill:none}
.axis{stroke:var(--quiet);fill:none}
.line{stroke:var(--c);fill:none;stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}
.faint{opacity:.45}
.line.faint{stroke-width:1.3}
.dot{fill:var(--c);stroke:var(--card);stroke-width:1}
.area,.part{fill:var(--c)}
.area{opacity:.85}
.part{stroke:var(--card);stroke-width:1}
.room{fill:var(--room)}
.level,.limit{stroke:var(--limit);fill:none;stroke-width:1.5}
.level{stroke-dasharray:5 4}
svg .name{fill:var(--c);font-weight:500}
svg .name.level{fill:var(--limit);stroke:none}
.swatch{display:inline-block;width:10px;height:10px;border-radius:3px;background:var(--c);
margin-right:7px}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;margin:0 0 6px;font-size:13px;
color:var(--quiet)}
.details{padding:16px 18px}
.group{margin-bottom:32px}
.group>.scroll{margin-bottom:10px}
.group>details{margin-top:10px}
.group>details>section{margin-top:16px}
.notices{margin:0;padding:0;list-style:none}
.notices li{padding:3px 0;overflow-wrap:anywhere}
.step{color:var(--quiet);margin-right:8px}
details{margin-top:18px}
summary{cursor:pointer;font-weight:600}
pre{margin:8px 0 0;padding:12px 14px;background:var(--room);border-radius:8px;
font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre-wrap;
overflow-wrap:anywhere}
.cursor{stroke:var(--quiet);stroke-dasharray:2 3}
.tip{position:fixed;z-index:1;pointer-events:none;background:var(--text);color:var(--card);
border-radius:7px;padding:6px 10px;font-size:12.5px;white-space:pre;box-shadow:0 2px 8px #0004}
@media print{body{background:#fff;font-size:12px}main{max-width:none;padding:0}.tile,figure,
.details,.scroll{break-inside:avoid;border-color:#ccc}.plots{grid-template-columns:1fr 1fr}*{
-webkit-print-color-adjust:exact;print-color-adjust:exact}}
)css";
}

// Shows the values under the pointer; the page works without it.
std::string_view report_script() {
  return R"js(
'use strict';
const tip = document.createElement('div');
tip.className = 'tip';
tip.hidden = true;
document.body.append(tip);

const text = v => Math.abs(v) >= 1000 ? Math.round(v).toLocaleString('en')
                                      : String(+v.toPrecision(Math.abs(v) >= 1 ? 4 : 3));
const nearest = (points, x) =>
    points.reduce((a, b) => Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a);

for (const svg of document.querySelectorAll('svg[data-x]')) {
  const lines = [...svg.querySelectorAll('path.line')].map(path => ({
    name: path.dataset.name,
    points: [...path.getAttribute('d').matchAll(/([-\d.]+) ([-\d.]+)/g)].map(m => [+m[1], +m[2]])
  }));
  if (!lines.length) continue;
  const [x0, x1, left, right] = svg.dataset.x.split(' ').map(Number);
  const [y0, y1, bottom, top] = svg.dataset.y.split(' ').map(Number);
  const cursor = document.createElementNS(svg.namespaceURI, 'path');
  cursor.setAttribute('class', 'cursor');
  svg.append(cursor);
  const hide = () => {
    tip.hidden = true;
    cursor.setAttribute('visibility', 'hidden');
  };
  svg.addEventListener('pointerleave', hide);
  svg.addEventListener('pointermove', event => {
    const at = new DOMPoint(event.clientX, event.clientY)
                   .matrixTransform(svg.getScreenCTM().inverse());
    if (at.x < left || at.x > right || at.y < top - 10 || at.y > bottom + 10) return hide();
    const found = lines.map(line => nearest(line.points, at.x));
    const x = nearest(found, at.x)[0];
    cursor.setAttribute('d', `M${x} ${top}V${bottom}`);
    cursor.setAttribute('visibility', 'visible');
    const rows = lines.map((line, i) => {
      const value = y0 + (bottom - found[i][1]) / (bottom - top) * (y1 - y0);
      return [line.name, text(value), svg.dataset.unit].filter(Boolean).join(' ');
    });
    rows.unshift(svg.dataset.xlabel + ' ' + text(x0 + (x - left) / (right - left) * (x1 - x0)));
    tip.textContent = rows.join('\n');
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.min(event.clientX + 14, innerWidth - box.width - 8) + 'px';
    tip.style.top = Math.max(8, event.clientY - box.height - 12) + 'px';
  });
}
)js";
}

std::string_view report_script_sha256() { return "ftxGzRGpsMbZRY/gm+ztBnE0sW0w0mVaQNC2Ixbgiss="; }

}  // namespace triaccel
