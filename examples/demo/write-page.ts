import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import type { TopLevelSpec } from "vega-lite";
import { drawSpec } from "./draw-chart.js";
import { REPORT_KINDS } from "./jobs.js";
import type { FinishedReport, Stretch } from "./read-story.js";

/** What the page shows. */
export interface PageContent {
  readonly summary: string;
  readonly figures: readonly (readonly [value: string, label: string])[];
  readonly reports: readonly FinishedReport[];
  readonly stretches: readonly Stretch[];
}

/** Writes the page with all charts, which needs no server to be looked at. */
export async function writePage(path: string, content: PageContent): Promise<void> {
  const timeline = await drawSpec(timelineOf(content.stretches));
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, pageOf(content, timeline));
}

function timelineOf(stretches: readonly Stretch[]): TopLevelSpec {
  const kinds = ["done", "killed", "done by a second worker"];
  return {
    data: { values: stretches.map((stretch) => ({ ...stretch, lane: String(stretch.lane) })) },
    width: 940,
    height: { step: 14 },
    mark: { type: "rect", cornerRadius: 2, height: { band: 0.8 } },
    encoding: {
      x: {
        field: "from",
        type: "quantitative",
        title: "seconds",
        axis: { labelExpr: "datum.value / 1000" },
      },
      x2: { field: "to" },
      y: { field: "lane", type: "nominal", title: null, axis: null },
      row: {
        field: "worker",
        type: "nominal",
        title: null,
        spacing: 12,
        header: { labelAngle: 0, labelAlign: "left", labelColor: "#264653", labelFontSize: 13 },
      },
      color: {
        field: "ended",
        type: "nominal",
        scale: { domain: kinds, range: ["#2a9d8f", "#d62828", "#f4a261"] },
        legend: { title: null, orient: "top", symbolType: "square", labelLimit: 0 },
      },
    },
  };
}

function pageOf({ summary, figures, reports }: PageContent, timeline: string): string {
  const tiles = figures.map(
    ([value, label]) => `<li><b>${escape(value)}</b> ${escape(label)}</li>`,
  );
  const airports = [...new Set(reports.map(({ airport }) => airport))];
  const sections = airports.map((airport) =>
    sectionOf(
      REPORT_KINDS.flatMap((kind) =>
        reports.filter((report) => report.airport === airport && report.kind === kind),
      ),
    ),
  );
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Flight reports</title>
<style>
${readFileSync(new URL("page.css", import.meta.url), "utf8")}</style>
<header>
<h1>Flight reports</h1>
<p>${escape(summary)}</p>
<ul>${tiles.join("")}</ul>
</header>
<main>
<h2>Who drew what, and when</h2>
<figure class="wide">${timeline}</figure>
<h2>The reports</h2>
${sections.join("\n")}
<h2>What happened to each</h2>
${tableOf(reports)}
</main>
</html>
`;
}

function sectionOf(reports: readonly FinishedReport[]): string {
  const [{ airport, airportName, city } = { airport: "", airportName: "", city: "" }] = reports;
  const figures = reports.map(({ svg, attempt }) => {
    const mark = attempt > 1 ? ' class="recovered" title="A second worker drew this one"' : "";
    return `<figure${mark}>${svg}</figure>`;
  });
  return `<section>
<h3>${escape(airport)} <small>${escape(airportName)}, ${escape(city)}</small></h3>
<div class="grid">${figures.join("\n")}</div>
</section>`;
}

function tableOf(reports: readonly FinishedReport[]): string {
  const rows = reports.map((report) => {
    const cells = [
      report.id,
      report.airport,
      report.kind,
      report.attempt,
      report.worker,
      `${report.startedAt.getTime() - report.requestedAt.getTime()} ms`,
      `${report.madeAt.getTime() - report.startedAt.getTime()} ms`,
    ];
    const mark = report.attempt > 1 ? ' class="recovered"' : "";
    return `<tr${mark}>${cells.map((cell) => `<td>${escape(String(cell))}</td>`).join("")}</tr>`;
  });
  const heads = ["Report", "Airport", "Kind", "Attempts", "Finished by", "Waited", "Drawn in"];
  return `<table>
<thead><tr>${heads.map((head) => `<th>${head}</th>`).join("")}</tr></thead>
<tbody>
${rows.join("\n")}
</tbody>
</table>`;
}

function escape(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
