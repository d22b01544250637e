# Ends process groups whose parent has died. Read by `sh -c`; POSIX only.
#
# stdin says which groups there are, a line each: "+ 123" for one that was started, "- 123" for one that has ended.
# When it ends, so has the parent, however it died. Servers that heed the end of their own input get a second to go by
# themselves, the rest is asked, and what is left after another second is killed.

# What is sent to everyone of a terminal or a service is not for us: the parent decides when this ends.
trap '' HUP INT QUIT TERM

groups=
while read -r sign group; do
    others=
    for known in $groups; do
        [ "$known" = "$group" ] || others="$others $known"
    done
    groups=$others
    [ "$sign" = - ] || groups="$groups $group"
done

# Sends a signal to every group, and forgets those that are gone: their numbers may be given to others.
signal() {
    living=
    for group in $groups; do
        kill -s "$1" -- "-$group" && living="$living $group"
    done
    groups=$living
}

signal 0
[ -z "$groups" ] || sleep 1
signal TERM
[ -z "$groups" ] || sleep 1
signal KILL
