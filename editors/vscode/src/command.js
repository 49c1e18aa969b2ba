// Finds the command that starts the language server.
"use strict";

const fs = require("node:fs");
const path = require("node:path");

const ARGUMENTS = ["check", "--lsp"];

/**
 * The command of the language server: the setting, else `gpuproof` beside the selected Python interpreter, else on PATH.
 *
 * @param {string[]} setting the setting `gpuproof.command`; empty if it is not set
 * @param {string | undefined} interpreter the path of the selected Python interpreter, if one is known
 * @param {(file: string) => boolean} exists whether a file exists
 * @returns {{command: string, args: string[]}}
 */
function serverCommand(setting, interpreter, exists = fs.existsSync) {
  if (setting.length > 0) {
    return { command: setting[0], args: [...setting.slice(1), ...ARGUMENTS] };
  }
  if (interpreter) {
    const beside = path.join(path.dirname(interpreter), "gpuproof");
    if (exists(beside)) {
      return { command: beside, args: ARGUMENTS };
    }
  }
  return { command: "gpuproof", args: ARGUMENTS };
}

module.exports = { serverCommand };
