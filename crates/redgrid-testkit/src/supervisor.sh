# Looks after one server: starts and kills it on request, and ends it when nobody is left to ask.
#
# Arguments: the server program, its configuration file, the folder of this server, further arguments of the program.
# Standard input: one verb a line; standard output: one line of answer to each.
#   start   starts the server and answers its process id
#   kill    kills the server (-9), waits until it is gone and answers `dead`
# End of input means that the owner let go, or died, however suddenly: the kernel closed its end of the pipe. Then the
# server is killed and its folder removed.
#
# Signals meant for the owner's terminal are ignored; a paused server would otherwise outlive a Ctrl-C.
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
