# The fields of a message, for compiled code.

cdef class Message:
    cdef public object topic
    cdef public object body
    cdef public object tags
    cdef public object keys
    cdef public object delay_level
    cdef public object deliver_at_ms
    cdef public object delay_ms
    cdef public object sharding_key
    cdef public object lite_topic
    cdef public object flag
    cdef public object wait_store_ok
    cdef object _properties

    cpdef bint _is_plain(self)


cpdef bytes encoded_properties(Message message, str unique_id, object more=*)
cdef bint _are_plain(object properties)
cdef bytes _encoded_plain(Message message, str unique_id)
