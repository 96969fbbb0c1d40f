// Log and trace of an attempt, as commands for people with access to the account.

// `log`: as the API tells it. Its filter has double quotes alone, so that single ones keep it from a shell.
export function logCommand({ group, filter, since, until }) {
  return [
    "aws logs filter-log-events",
    `--log-group-name ${group}`,
    `--start-time ${Date.parse(since)}`,
    `--end-time ${Date.parse(until)}`,
    `--filter-pattern '${filter}'`,
  ].join(" ");
}

export const traceCommand = (id) => `aws xray batch-get-traces --trace-ids ${id}`;
