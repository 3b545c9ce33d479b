/** live. */
export const title = "live";
export function applies() { return false; }
export function render() {}
