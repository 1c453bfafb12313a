import { parse, View } from "vega";
import { compile, type TopLevelSpec } from "vega-lite";
import type { flights } from "./schema.js";

/** What a chart is drawn from. */
export type Flight = typeof flights.$inferSelect;

type ReportKind = "delay-by-hour" | "routes" | "punctuality" | "week";
type Drawing = Pick<Extract<TopLevelSpec, { mark: unknown }>, "mark" | "encoding"> & {
  readonly title: string;
  readonly transform?: Extract<TopLevelSpec, { mark: unknown }>["transform"];
};

const font = "system-ui, -apple-system, 'Segoe UI', sans-serif";
const delayScale = { domain: [-5, 25], range: ["#2a9d8f", "#f1e9d2", "#e76f51"], clamp: true };
const meanDelay = { aggregate: "mean", field: "delayMinutes", type: "quantitative" } as const;
const count = { aggregate: "count", type: "quantitative", title: "flights" } as const;

const drawings: Record<ReportKind, Drawing> = {
  "delay-by-hour": {
    title: "Delay by hour of departure",
    mark: { type: "bar", cornerRadiusEnd: 2 },
    encoding: {
      x: { timeUnit: "hours", field: "departure", type: "ordinal", title: null, axis: hours() },
      y: { ...meanDelay, title: "minutes late, on average" },
      color: { ...meanDelay, scale: delayScale, legend: null },
    },
  },
  routes: {
    title: "Where the flights go",
    transform: [
      {
        aggregate: [
          { op: "count", as: "flights" },
          { op: "mean", field: "delayMinutes", as: "delayMinutes" },
        ],
        groupby: ["destination"],
      },
      {
        window: [{ op: "row_number", as: "place" }],
        sort: [{ field: "flights", order: "descending" }],
      },
      { filter: "datum.place <= 10" },
    ],
    mark: { type: "bar", cornerRadiusEnd: 2 },
    encoding: {
      y: { field: "destination", type: "nominal", sort: "-x", title: null },
      x: { field: "flights", type: "quantitative" },
      color: {
        field: "delayMinutes",
        type: "quantitative",
        scale: delayScale,
        legend: null,
      },
    },
  },
  punctuality: {
    title: "How late they are",
    transform: [{ filter: "datum.delayMinutes >= -40 && datum.delayMinutes <= 120" }],
    mark: { type: "bar", binSpacing: 0.5 },
    encoding: {
      x: { bin: { step: 5 }, field: "delayMinutes", type: "quantitative", title: "minutes late" },
      y: count,
      color: {
        ...meanDelay,
        scale: { ...delayScale, domain: [-30, 45] },
        legend: null,
      },
    },
  },
  week: {
    title: "Delay through the week",
    mark: { type: "rect", cornerRadius: 1 },
    encoding: {
      x: { timeUnit: "hours", field: "departure", type: "ordinal", title: null, axis: hours() },
      y: { timeUnit: "day", field: "departure", type: "ordinal", title: null },
      color: { ...meanDelay, scale: delayScale, legend: null },
    },
  },
};

/** Draws one chart as SVG, with vega-lite and vega. */
export function drawChart(kind: ReportKind, rows: readonly Flight[]): Promise<string> {
  return drawSpec({
    ...drawings[kind],
    data: { values: [...rows] },
    width: 300,
    height: 170,
  } as TopLevelSpec);
}

/** Draws any vega-lite chart as SVG, in the demo's style. */
export async function drawSpec(spec: TopLevelSpec): Promise<string> {
  const { spec: drawn } = compile({ config, ...spec });
  const view = new View(parse(drawn), { renderer: "none" });
  const svg = await view.toSVG();
  view.finalize();
  return svg;
}

const config = {
  background: "transparent",
  font,
  view: { stroke: null },
  title: { anchor: "start", fontSize: 13, fontWeight: 600, color: "#264653", offset: 8 },
  axis: {
    grid: false,
    domainColor: "#cfd8dc",
    tickColor: "#cfd8dc",
    labelColor: "#607d8b",
    titleColor: "#607d8b",
    titleFontWeight: 400,
  },
} as const;

function hours() {
  return { labelExpr: "hours(datum.value) % 3 === 0 ? hours(datum.value) : ''", ticks: false };
}
