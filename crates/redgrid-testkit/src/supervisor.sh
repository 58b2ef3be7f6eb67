# Supervises one server: starts and kills it on request, and ends it when its owner is gone.
#
# Arguments: the server program, its configuration file, the folder of this server, further arguments
# of the program.
# Standard input: one verb per line; standard output: one line of reply to each.
#   start   starts the server, and replies with its process id
#   kill    kills the server (-9), waits until it is gone, and replies `dead`
# At the end of the input, the owner has closed the pipe or has died: the kernel closes it then. The
# server is killed, and its folder removed.
#
# Signals of the owner's terminal are ignored: otherwise a paused server would outlive a Ctrl-C.
trap '' INT TERM HUP QUIT PIPE
program=$1 configuration=$2 folder=$3 server=
shift 3
end() {
  if [ -n "$server" ]; then
    kill -KILL "$server"
    wait "$server"
    server=
  fi
}
while read -r verb; do
  case $verb in
    start)
      end
      "$program" "$configuration" "$@" >>"$folder/server.log" 2>&1 &
      server=$!
      echo "$server"
      ;;
    kill)
      end
      echo dead
      ;;
  esac
done
end
rm -rf "$folder"
