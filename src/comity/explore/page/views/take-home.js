/** Take it home: a client's model as files, its card, and the lines that use it. */
import { chosenRow, clientField, clientsOf } from "comity/clients";
import { code, make, message, section } from "comity/elements";
import { weights } from "comity/formats";
import { exact, preferenceControl } from "comity/simplex";
import { numbers } from "comity/state";

export const title = "Take it home";

const FORMATS = {
  safetensors: ["safetensors", "weights and metadata; Comity or PyTorch loads it"],
  onnx: ["ONNX", "runs in ONNX Runtime, in most languages"],
  nnef: ["NNEF", "a directory in the Khronos exchange format, as a zip file"],
  card: ["Model card", "what it is for, how it was judged, its limits (Markdown)"],
};

/** Runs whose models can be exported. */
export function applies(shown) {
  return shown.kind === "run" && shown.exports.length > 0;
}

/** Draw the downloads and the lines for one client. */
export function render(root, context) {
  const { document: shown, source, state } = context;
  const clients = clientsOf(shown);
  const names = shown.problem.objectives.map((objective) => objective.name);
  let row = chosenRow(context, clients);
  let preference = shown.takes_any ? numbers(state.w, names.length) : null;
  if (preference) preference = exact(preference);
  const place = make("div");

  const draw = () => {
    const client = clients[row];
    const asked = preference ?? (client.preference ? exact(client.preference) : []);
    const at = preference ? { preference: preference.join(",") } : {};
    const files = shown.exports.map((format) => {
      const [name, meaning] = FORMATS[format] ?? [format, ""];
      const address = source.exportAddress(shown.id, { client: client.number, format, ...at });
      const link =
        address &&
        make(
          "a",
          { class: "button", href: address, download: true, "data-format": format, "aria-label": `Download ${name}` },
          "Download",
        );
      return make("li", {}, make("div", {}, make("b", {}, name), make("span", { class: "note" }, meaning)), link);
    });
    place.replaceChildren(
      section(
        "Files",
        make("ul", { class: "files" }, files),
        source.saved
          ? message(
              "This is a saved page: it holds no models. The commands below write them, where the run's directory is.",
            )
          : message("The very bytes that the commands below write."),
      ),
      section(
        "From the command line",
        shown.exports
          .filter((format) => format !== "card")
          .map((format) => code(command(shown, client, format, asked))),
        shown.commands.predict ? code(filled(shown.commands.predict, client, asked)) : "",
      ),
      section("From Python", code(filled(shown.python, client, asked))),
    );
  };
  const control =
    shown.takes_any &&
    preferenceControl(names, preference ?? clients[row].preference ?? names.map(() => 1 / names.length), [], (next) => {
      preference = next;
      context.set({ client: clients[row].number, w: next.join(",") });
      draw();
    });
  const own = message("");
  const explain = () => {
    const wish = clients[row].preference;
    own.textContent = shown.takes_any
      ? `The model at this preference is made when you download it. ${wish ? `The client's own preference is ${weights(wish)}.` : ""}`
      : "This model is fixed: it was trained for the client's own preference.";
  };
  root.append(
    make(
      "div",
      { class: "controls" },
      clientField(clients, row, (next) => {
        row = next;
        preference = null;
        if (control && clients[row].preference) control.show(clients[row].preference);
        context.set({ client: clients[row].number, w: null });
        explain();
        draw();
      }),
    ),
    make("div", { class: "narrow" }, control ? control.element : "", own),
    place,
  );
  explain();
  draw();
}

/** Put another client and preference into a command or into lines of Python. */
function filled(text, client, preference) {
  return text
    .replace(/--client \S+/g, `--client ${client.number}`)
    .replace(/--preference \S+/g, `--preference ${preference.join(",")}`)
    .replace(/client=\d+/g, `client=${client.number}`)
    .replace(/preference=\[[^\]]*\]/g, `preference=[${preference.join(", ")}]`);
}

/** Return the command that writes a format. */
function command(shown, client, format, preference) {
  return filled(shown.commands.export, client, preference).replace("model.safetensors", `model.${format}`);
}
