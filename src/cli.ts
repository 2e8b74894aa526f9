#!/usr/bin/env node
import './node-version.mjs';

await import('./cli/run.js');
