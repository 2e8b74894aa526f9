#!/usr/bin/env node
import './node-version.mjs';
import './address-space.js';

await import('./cli/run.js');
