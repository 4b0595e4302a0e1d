// How Sphinx's search orders its hits: guides first, pages of measurements last.
var Scorer = {
  score: ([page, title, anchor, description, score]) =>
    score +
    (/^(guide_|install|troubleshooting)/.test(page) ? 10 : 0) -
    (/^(onednn_|onnx_ops|patterns$)/.test(page) ? 30 : 0),
  // Sphinx's own numbers.
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
