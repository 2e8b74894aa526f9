#!/usr/bin/env node
import 'reflect-metadata';
import { backupCommand } from './cli/backup.js';
import { Cli } from './cli/cli.js';
import { exportCommand } from './cli/export.js';
import { generationsCommands } from './cli/generations.js';
import { importCommand } from './cli/import.js';
import { keysCommands } from './cli/keys.js';
import { orgsCommands } from './cli/orgs.js';
import { replayCommand } from './cli/replay.js';
import { statusCommand } from './cli/status.js';
import { verifyCommand } from './cli/verify.js';

/** Every command is a file in `cli/` with a function that registers it. */
const COMMANDS = [
  statusCommand,
  importCommand,
  exportCommand,
  replayCommand,
  verifyCommand,
  generationsCommands,
  backupCommand,
  keysCommands,
  orgsCommands,
];

const cli = new Cli();
for (const register of COMMANDS) register(cli);
await cli.run(process.argv);
