"""The job `audit`: whether the files of stores agree with each other and with themselves.

`pieces` reads files in the workers, `tables` makes data frames of what they hold, `checks` compares them, and
`command` is the command line. Stores of many brokers are read at once; no broker is asked.
"""
