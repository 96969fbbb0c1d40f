// AWS CLI commands that show an attempt's log and trace.

// `filter` contains no single quotes, so single quotes protect it in a shell.
export function logCommand({
  group,
  filter,
  since,
  until,
}: {
  group: string;
  filter: string;
  since: string;
  until: string;
}) {
  return [
    "aws logs filter-log-events",
    `--log-group-name ${group}`,
    `--start-time ${Date.parse(since)}`,
    `--end-time ${Date.parse(until)}`,
    `--filter-pattern '${filter}'`,
  ].join(" ");
}

export const traceCommand = (id: string) => `aws xray batch-get-traces --trace-ids ${id}`;
