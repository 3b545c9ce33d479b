// Draw the charts if plotly's script is there; otherwise the pictures stay.
(async () => {
  const bytes = Uint8Array.from(atob(window.packedPlotly), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = document.createElement("script");
  script.textContent = await new Response(stream).text();
  document.head.append(script);

  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const draw = (figure) => {
    const { data, layout } = JSON.parse(figure.querySelector("script").textContent);
    const css = getComputedStyle(document.documentElement);
    const look = (name) => css.getPropertyValue(name).trim();
    for (const key of Object.keys(layout).filter((k) => /^[xy]axis/.test(k))) {
      layout[key] = { gridcolor: look("--grid"), zeroline: false, automargin: true, ...layout[key] };
    }
    const common = {
      autosize: true, margin: { t: 20, r: 10, b: 50, l: 60 },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: look("--ink"), family: "system-ui, sans-serif", size: 13 },
      hoverlabel: { font: { family: "system-ui, sans-serif" } },
    };
    const chart = figure.querySelector(".chart");
    Plotly.react(chart, data, { ...common, ...layout }, { responsive: true, displayModeBar: false });
    figure.classList.add("drawn");
  };
  const all = () => document.querySelectorAll("figure.live").forEach(draw);
  all();
  dark.addEventListener("change", all);
})().catch((error) => console.warn("charts stay pictures:", error));
