"use strict";

const assert = require("node:assert");
const { test } = require("node:test");
const { serverCommand } = require("../src/command");

test("the setting takes precedence", () => {
  const found = serverCommand(["uv", "run", "gpuproof"], "/venv/bin/python", () => true);
  assert.deepStrictEqual(found, { command: "uv", args: ["run", "gpuproof", "check", "--lsp"] });
});

test("gpuproof of the selected interpreter is used if it is installed there", () => {
  const exists = (file) => file === "/venv/bin/gpuproof";
  assert.strictEqual(serverCommand([], "/venv/bin/python", exists).command, "/venv/bin/gpuproof");
  assert.strictEqual(serverCommand([], "/other/bin/python", exists).command, "gpuproof");
});

test("without an interpreter it is the one on PATH", () => {
  assert.deepStrictEqual(serverCommand([], undefined), { command: "gpuproof", args: ["check", "--lsp"] });
});
