# Supervises a WebDriver: starts it on request, and ends it and its browser when its owner is gone.
#
# Arguments: the program, the folder of this driver.
# Standard input: the verb `start`; standard output: the process id of the driver.
# At the end of the input, the owner has closed the pipe or has died: the kernel closes it then. The
# driver and the browser are killed, and the folder is removed.
#
# Signals of the owner's terminal are ignored: otherwise the browser would outlive a Ctrl-C.
trap '' INT TERM HUP QUIT PIPE
program=$1 folder=$2 driver=
# Driver and browser write into the folder only.
export HOME="$folder" TMPDIR="$folder/tmp"
while read -r verb; do
  if [ "$verb" = start ]; then
    "$program" --port=0 >>"$folder/driver.log" 2>&1 &
    driver=$!
    echo "$driver"
  fi
done
if [ -n "$driver" ]; then
  kill -KILL "$driver"
  wait "$driver"
fi
# The browser and its processes are in the process group of this shell.
ps -eo pid=,pgid= | while read -r pid group; do
  if [ "$group" = "$$" ] && [ "$pid" != "$$" ]; then
    echo "$pid"
  fi
done >"$folder/processes"
while read -r pid; do
  kill -KILL "$pid"
done <"$folder/processes" 2>/dev/null
# A process that is ending may still write into the folder.
for _ in 1 2 3 4 5 6 7 8 9 10; do
  rm -rf "$folder"
  [ -e "$folder" ] || break
  sleep 0.1
done
