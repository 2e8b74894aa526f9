import { jest } from '@jest/globals';

// Machines that run CI are small and shared: a test that waits for real servers may be tried again, and says so.
if (process.env['CI']) jest.retryTimes(2, { logErrorsBeforeRetry: true });
