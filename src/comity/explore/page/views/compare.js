/** compare. */
export const title = "compare";
export function applies() { return false; }
export function render() {}
