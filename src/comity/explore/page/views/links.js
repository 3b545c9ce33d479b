/** links. */
export const title = "links";
export function applies() { return false; }
export function render() {}
