/** The tree of clusters over the rounds. */
import { decode } from "comity/arrays";
import { axis, figure } from "comity/charts";

const TIGHT = 0.45; // how near the lines of a cluster's clients run together

/**
 * Make the tree: one line per client, near to those of its cluster.
 * @param {object} context of the view
 * @param {object[]} clients of the run
 * @param {function} choose called with the row of a client that the reader points at
 * @param {object} model of the view, for the chosen row; null if none can be chosen
 */
export function clusterTree(context, clients, choose, model = null) {
  const { clusters } = context.document;
  const labels = decode(clusters.labels).lists();
  const slot = [];
  clusters.order.forEach((row, place) => (slot[row] = place));
  const heights = labels.map((line) => {
    const sums = new Map();
    line.forEach((label, row) => {
      const [sum, size] = sums.get(label) ?? [0, 0];
      sums.set(label, [sum + slot[row], size + 1]);
    });
    return line.map((label, row) => {
      const [sum, size] = sums.get(label);
      return sum / size + (slot[row] - sum / size) * TIGHT;
    });
  });
  const last = [...new Set(clusters.order.map((row) => labels.at(-1)[row]))];
  const counts = labels.map((line) => new Set(line).size);
  return figure(context, {
    title: "Clusters over the rounds",
    name: "clusters",
    height: Math.min(620, 120 + 26 * clients.length),
    note: `${counts[0]} at first, ${counts.at(-1)} at the end. Lines that run together are clients of one cluster.`,
    build: (colour) => ({
      grid: { left: 12, right: clients.length <= 40 ? 96 : 12, top: 8, bottom: 40 },
      xAxis: axis(colour, "round", { minInterval: 1 }),
      yAxis: axis(colour, "", { show: false, min: -0.5, max: clients.length - 0.5, scale: false }),
      tooltip: { formatter: ({ seriesName }) => seriesName },
      series: clients.map((client) => {
        const chosen = model && client.row === model.row;
        const color = colour.palette[last.indexOf(labels.at(-1)[client.row]) % colour.palette.length];
        return {
          type: "line",
          name: client.label,
          step: false,
          symbol: "circle",
          symbolSize: chosen ? 7 : 3,
          triggerLineEvent: true,
          z: chosen ? 5 : 2,
          data: clusters.rounds.map((round, index) => [round, heights[index][client.row]]),
          lineStyle: { width: chosen ? 3.5 : clients.length > 100 ? 0.8 : 1.6, color },
          itemStyle: { color },
          labelLayout: { hideOverlap: true },
          endLabel: {
            show: clients.length <= 40,
            formatter: "{a}",
            color: chosen ? colour.ink : colour.soft,
            fontSize: 11,
            width: 88,
            overflow: "truncate",
            fontWeight: chosen ? 600 : 400,
          },
        };
      }),
      aria: {
        label: {
          enabled: true,
          description: `Clusters of ${clients.length} clients: ${counts[0]} at first, ${counts.at(-1)} at the end.`,
        },
      },
    }),
    rows: () => ({
      head: ["client", ...clusters.rounds.map((round) => `round ${round}`)],
      rows: clients.map((client) => [client.label, ...labels.map((line) => line[client.row])]),
    }),
    click: ({ seriesIndex }) => choose(seriesIndex),
  });
}
