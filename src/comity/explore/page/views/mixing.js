/** mixing. */
export const title = "mixing";
export function applies() { return false; }
export function render() {}
